#!/bin/sh
# Draws the lighthouse anew with ImageMagick 6: left of the middle, so that its mirror image is another picture.
set -eu
cd "$(dirname "$0")"
convert -size 320x240 gradient:'#f0b070'-'#305090' -fill '#f8e8b0' -draw 'circle 250,60 250,84' \
  -fill '#204060' -draw 'rectangle 0,190 319,239' -fill '#304030' -draw 'polygon 20,239 60,180 150,180 200,239' \
  -fill white -draw 'polygon 85,180 93,80 117,80 125,180' -fill '#c03028' -draw 'polygon 88,145 91,115 119,115 122,145' \
  -fill '#c03028' -draw 'polygon 89,80 105,58 121,80' -depth 8 -define png:color-type=2 -strip lighthouse.png
