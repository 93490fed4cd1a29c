#!/bin/sh
# Makes the slides anew with LibreOffice Impress: as they are, and as the task wants them.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
convert() {
  soffice "-env:UserInstallation=file://$work/profile" --headless --convert-to pptx --outdir "$1" "$2" >/dev/null
}
convert . choir-season.fodp
sed 's|<text:p>Rehersals</text:p>|<text:p><text:span text:style-name="Bold">Rehearsals</text:span></text:p>|' \
  choir-season.fodp > "$work/choir-season-gold.fodp"
convert "$work" "$work/choir-season-gold.fodp"
# Once more from pptx: the task's slides are opened from it before they are saved.
convert . "$work/choir-season-gold.pptx"
