# syntax=docker/dockerfile:1
# The wheel is compiled in the first stage; the second has neither compiler nor pip's leavings.
FROM python:3.13-slim-bookworm AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml setup.py README.md ./
COPY src ./src
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
RUN --mount=type=cache,target=/root/.cache/pip \
    python -m venv /opt/pgrelay && /opt/pgrelay/bin/pip install . \
    && /opt/pgrelay/bin/pgrelay --version | grep -q compiled

FROM python:3.13-slim-bookworm
LABEL org.opencontainers.image.title="pgrelay" \
      org.opencontainers.image.description="Relays Postgres row changes to Kafka" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/pgrelay /opt/pgrelay
# The spool is the only thing that is written: mount a volume here when source.two_phase is on.
RUN useradd --system --uid 10001 --no-create-home pgrelay && install -d -m 0700 -o pgrelay /var/lib/pgrelay
USER 10001
ENV PGRELAY_TRANSACTIONS__SPOOL_DIR=/var/lib/pgrelay \
    PGRELAY_HTTP__LISTEN=0.0.0.0:8080
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["/opt/pgrelay/bin/python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]
ENTRYPOINT ["/opt/pgrelay/bin/pgrelay"]
CMD ["run", "--config", "/etc/pgrelay/relay.yaml"]
