#!/bin/bash
# Builds the desktop image:
#
#   src/desktop/guest/build-image.sh                          from debian:bookworm-slim, as deskhand-desktop:latest
#   BASE=deskhand-base:bookworm TAG=mine:1 .../build-image.sh  from another Debian 12, under another name
#   APPLICATIONS="gimp vlc" .../build-image.sh                 with other Debian packages than the bundled tasks need
#   RELATED_APPS="gimp vs_code" .../build-image.sh             and with these applications too, by OSWorld's names
#   RELATED_APPS=all .../build-image.sh                        and with those of all its domains
#   CODE_DEB=https://... .../build-image.sh                    and with Visual Studio Code, which Debian does not have
#   .../build-image.sh packages gimp vs_code                   says which packages OSWorld's names stand for; builds nothing
#
# The engine is the one of DOCKER_HOST. The guest server is dist/guest/server.mjs (npm run build:guest), and the Node
# binary is the one on the PATH unless NODE names another; it has to run on Debian 12.
set -euo pipefail

# The same names as in src/desktop/Applications.ts.
packages_of() {
  local name
  for name in "$@"; do
    case $name in
      chrome) echo chromium ;;
      libreoffice_calc) echo libreoffice-calc libreoffice-gtk3 ;;
      libreoffice_writer) echo libreoffice-writer libreoffice-gtk3 ;;
      libreoffice_impress) echo libreoffice-impress libreoffice-gtk3 ;;
      libreoffice_draw) echo libreoffice-draw libreoffice-gtk3 ;;
      gimp | vlc | thunderbird) echo "$name" ;;
      terminal) echo gnome-terminal ;;
      files) echo nautilus ;;
      pdf) echo evince ;;
      vs_code | vscode) [ -n "${CODE_DEB:-}" ] || echo "build-image: vs_code: set CODE_DEB, Debian does not have it" >&2 ;;
      os | multi_apps) ;;
      all)
        packages_of chrome libreoffice_calc libreoffice_writer libreoffice_impress libreoffice_draw gimp vlc \
          thunderbird vs_code terminal files pdf
        ;;
      *)
        echo "build-image: $name is none of OSWorld's applications: name its Debian package in APPLICATIONS" >&2
        return 1
        ;;
    esac
  done
}

if [ "${1:-}" = packages ]; then
  shift
  packages_of "$@" | tr ' ' '\n' | sort -u
  exit
fi

guest=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$guest/../../.." && pwd)
base=${BASE:-debian:bookworm-slim}
tag=${TAG:-deskhand-desktop:latest}
node=$(readlink -f "${NODE:-$(command -v node)}")
server=$root/dist/guest/server.mjs

related=$(packages_of ${RELATED_APPS:-} | tr '\n' ' ')
if [ -n "$related" ]; then
  # What is there without them is in the Dockerfile.
  usual=$(sed -n 's/^ARG APPLICATIONS="\(.*\)"$/\1/p' "$guest/Dockerfile")
  APPLICATIONS="${APPLICATIONS-$usual} $related"
fi

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
  ${CODE_DEB:+--build-arg "CODE_DEB=$CODE_DEB"} --tag "$tag" "$context" >&2
printf '%s\n' "$tag"
