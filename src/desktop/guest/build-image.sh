#!/bin/bash
# Builds the desktop image:
#
#   src/desktop/guest/build-image.sh                          from debian:bookworm-slim, as deskhand-desktop:latest
#   BASE=deskhand-base:bookworm TAG=mine:1 .../build-image.sh  from another Debian 12, under another name
#   APPLICATIONS="gimp vlc" .../build-image.sh                 with other applications
#
# The engine is the one of DOCKER_HOST. The guest server is dist/guest/server.mjs (npm run build:guest), and the Node
# binary is the one on the PATH unless NODE names another; it has to run on Debian 12.
set -euo pipefail

guest=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$guest/../../.." && pwd)
base=${BASE:-debian:bookworm-slim}
tag=${TAG:-deskhand-desktop:latest}
node=$(readlink -f "${NODE:-$(command -v node)}")
server=$root/dist/guest/server.mjs

[ -e "$server" ] || { echo "build-image: $server is missing: run npm run build:guest" >&2; exit 1; }

context=$(mktemp -d "${TMPDIR:-/tmp}/deskhand-image-XXXXXX")
trap 'rm -rf "$context"' EXIT
cp "$guest/Dockerfile" "$guest/start.sh" "$server" "$context/"
cp --reflink=auto "$node" "$context/node"
chmod 755 "$context/node" "$context/start.sh"
tar -C "$guest" --exclude=__pycache__ -c bin etc python | tar -C "$context" -x
chmod -R go+rX "$context"

# The build needs Debian's mirror, and the host's network is the one that is known to reach it.
docker build --network host --build-arg "BASE=$base" ${APPLICATIONS+--build-arg "APPLICATIONS=$APPLICATIONS"} \
  --tag "$tag" "$context" >&2
printf '%s\n' "$tag"
