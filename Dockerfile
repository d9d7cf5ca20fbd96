# Two images on any base that has python3 >= 3.9:
#
#   docker build --build-arg BASE=pytorch/pytorch:latest --target entrypoint -t train .
#     the base, and in front of every command the check of its devices:
#     docker run -e K8SEL_ACCELERATOR=cuda -e K8SEL_DEVICES=2,0 train torchrun train.py   (all variables: train --help)
#
#   python3 -m pip install --no-compile --target build/site . && docker build --target cli -t k8sel .
#     the command line; the Python that installs has to be of the base's version. No step of either needs a network.
# The default base is python:3.12-slim of August 2026 for all platforms, as docker-library recorded it:
# https://github.com/docker-library/repo-info/blob/2986dca3a80cb11b70fc4599941096374ea9e509/repos/python/remote/3.12-slim.md
ARG BASE=python:3.12-slim@sha256:229a2c5bfa27522db7815ea81f9bed70af17ccb9de9fc7ad142b1877b5830d36

FROM ${BASE} AS build
COPY k8sel /src/k8sel
RUN ["python3", "-c", "import pathlib, sys; sys.path.insert(0, '/src'); from k8sel.bundle import files; out = pathlib.Path('/out'); out.mkdir(); (out / files.SCRIPT).write_text(files.script()); (out / files.ARCHIVE).write_bytes(files.archive()); start = out / 'k8sel-entrypoint'; start.write_text('#!/bin/sh\\nexec /bin/sh /opt/k8sel/entrypoint \"$@\"\\n'); start.chmod(0o755)"]

FROM ${BASE} AS entrypoint
COPY --from=build /out/entrypoint /out/entrypoint.pyz /opt/k8sel/
COPY --from=build /out/k8sel-entrypoint /usr/local/bin/
USER 1000:1000
ENTRYPOINT ["k8sel-entrypoint"]
CMD ["--help"]

FROM ${BASE} AS cli
COPY build/site /opt/k8sel/site
ENV PYTHONPATH=/opt/k8sel/site
USER 1000:1000
ENTRYPOINT ["python3", "-m", "k8sel"]
CMD ["--help"]
