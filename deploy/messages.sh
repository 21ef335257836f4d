#!/bin/sh
# Collect the texts of templates, Python and scripts into locale/*/LC_MESSAGES/*.po, without line numbers, so that a
# change of code changes no line here. Then compile them, so that the pages show what was translated.
set -eu
cd "$(dirname "$0")/.."
command -v xgettext >/dev/null || { echo "xgettext is missing; on Debian and Ubuntu: apt-get install gettext" >&2; exit 1; }
for domain in django djangojs; do
    .venv/bin/python manage.py makemessages --all --domain "$domain" --no-location --no-obsolete --no-wrap --verbosity 0 "$@"
done
.venv/bin/python -c 'from pathlib import Path; import hatch_build; hatch_build.compile_translations(Path())'
