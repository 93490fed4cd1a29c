#!/bin/sh
# Moves the photos of the Downloads folder to Pictures.
for photo in "$HOME"/Downloads/*.jpg; do
  [ -e "$photo" ] && mv -- "$photo" "$HOME/Pictures/"
done
