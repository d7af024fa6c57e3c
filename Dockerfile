# The server with its console, and every other verb of `beanpole`. docs/install.md says how to use it.
#
# Everything is installed into /opt/beanpole by the first stage, which has a compiler; the second has none. tests/ops runs
# each command that stands here, but for apt-get.
ARG PYTHON_VERSION=3.13

FROM python:${PYTHON_VERSION}-slim AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY compiling.py constraints.txt pyproject.toml progress.py sbom.cdx.json setup.py stubs.py MANIFEST.in README.md LICENSE ./
COPY src ./src
COPY ids ./ids
ARG EXTRAS=console,cluster,relay
ARG IDS=
RUN python -m venv /opt/beanpole \
    && /opt/beanpole/bin/pip install --no-cache-dir --constraint constraints.txt ".[${EXTRAS}]" ${IDS}

FROM python:${PYTHON_VERSION}-slim
COPY --from=build /opt/beanpole /opt/beanpole
# A user by number, so that Kubernetes can see that it is not root. It needs no name and no home.
RUN install --directory --owner=11300 --group=11300 --mode=700 /data
ENV PATH=/opt/beanpole/bin:$PATH
USER 11300:11300
VOLUME /data
EXPOSE 11300 11380
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["beanpole", "stats"]
ENTRYPOINT ["beanpole"]
CMD ["serve", "-b", "/data", "--http", "0.0.0.0:11380"]
