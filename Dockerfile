# syntax=docker/dockerfile:1
# The wheel is compiled in the first stage; the second has neither a compiler nor a pip in its environment.
FROM python:3.13-slim-trixie AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
WORKDIR /src
COPY pyproject.toml setup.py README.md config.example.yaml ./
COPY src ./src
# What the tag says, which git would tell: it is not in here.
ARG VERSION=0.0
ENV SETUPTOOLS_SCM_PRETEND_VERSION_FOR_PGRELAY=${VERSION}
# hadolint ignore=DL3013
RUN --mount=type=cache,target=/root/.cache/pip \
    python -m venv --without-pip /opt/pgrelay \
    && pip --python /opt/pgrelay/bin/python install '.[avro]' \
    && /opt/pgrelay/bin/pgrelay --version | grep compiled

FROM python:3.13-slim-trixie
ARG VERSION=0.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="pgrelay" \
      org.opencontainers.image.description="Relays Postgres row changes to Kafka" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/pgrelay /opt/pgrelay
RUN groupadd --system --gid 10001 pgrelay \
    && useradd --system --uid 10001 --gid 10001 --no-create-home pgrelay \
    && install -d -m 0700 -o pgrelay -g pgrelay /var/lib/pgrelay \
    && ln -s /opt/pgrelay/bin/pgrelay /usr/local/bin/pgrelay
USER 10001:10001
# Over the file's: the spool is all that is written, and loopback in a container is nobody's.
ENV PGRELAY_TRANSACTIONS__SPOOL_DIR=/var/lib/pgrelay \
    PGRELAY_HTTP__LISTEN=0.0.0.0:8080
# A volume, so that a read-only root needs nothing more. Name it where source.two_phase is on: it must survive.
VOLUME /var/lib/pgrelay
EXPOSE 8080
# The image has no curl, and urllib would ask a proxy that the environment names, as Docker's own settings may have
# it in every container. Asked is what PGRELAY_HTTP__LISTEN gives, and of every interface the loopback.
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s CMD ["/opt/pgrelay/bin/python", "-c", \
    "import os, http.client as h; a, _, p = os.environ['PGRELAY_HTTP__LISTEN'].rpartition(':'); a = {'0.0.0.0': '127.0.0.1', '[::]': '::1'}.get(a, a.strip('[]')); c = h.HTTPConnection(a, int(p), timeout=4); c.request('GET', '/healthz'); raise SystemExit(c.getresponse().status != 200)"]
# No init: pgrelay starts no processes, and as process 1 it takes SIGTERM itself.
ENTRYPOINT ["/opt/pgrelay/bin/pgrelay"]
CMD ["run", "--config", "/etc/pgrelay/relay.yaml"]
