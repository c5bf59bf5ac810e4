# syntax=docker/dockerfile:1
# PySpark with pgrelay.spark and its jars: nothing is downloaded at start. Build it from the project's root.
FROM python:3.13-slim-trixie
# Spark's launcher calls ps.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends procps \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --system --gid 10001 spark \
    && useradd --system --uid 10001 --gid 10001 --create-home spark \
    && install -d -o spark -g spark /lake
WORKDIR /src
COPY pyproject.toml setup.py README.md config.example.yaml ./
COPY src ./src
# hadolint ignore=DL3013
RUN --mount=type=cache,target=/root/.cache/pip \
    python -m venv --without-pip /opt/pgrelay \
    && PGRELAY_PURE=1 pip --python /opt/pgrelay/bin/python install '.[spark]'
USER 10001:10001
ENV HOME=/home/spark
WORKDIR /home/spark
RUN ["/opt/pgrelay/bin/python", "-c", "from pgrelay.spark import spark_jars; spark_jars()"]
ENTRYPOINT ["/opt/pgrelay/bin/python"]
