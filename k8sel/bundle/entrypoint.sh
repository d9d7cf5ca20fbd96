#!/bin/sh
# k8sel's entrypoint: finds a python3 for the zipapp beside this script.
# Not `python3 entrypoint.pyz`, which does the same: Python would import runpy first, for a tenth of the whole start.
# -I and -S: neither the user's PYTHONPATH nor a site-packages folder can break it; the command inherits both untouched.
case $0 in */*) archive="${0%/*}/entrypoint.pyz" ;; *) archive=./entrypoint.pyz ;; esac
for python in python3 /usr/local/bin/python3 /usr/bin/python3 /opt/conda/bin/python3 /opt/venv/bin/python3; do
  if command -v "$python" >/dev/null 2>&1; then
    exec "$python" -I -S -c "import sys; sys.path.insert(0, sys.argv.pop(1)); import start" "$archive" "$@"
  fi
done
message="k8sel: the image has no python3: use an image with python3 >= 3.9, or entrypoint.mode: none"
if [ "$1" = check ]; then
  node=$(cat /proc/sys/kernel/hostname)
  printf 'k8sel-report: {"node":"%s","ok":false,"problems":["%s"]}\n' "$node" "${message#k8sel: }"
  exit 0
fi
echo "$message" >&2
if [ -w /dev/termination-log ]; then echo "$message" >/dev/termination-log; fi
exit 78
