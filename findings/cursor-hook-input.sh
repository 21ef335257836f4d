#!/usr/bin/env bash
# Cursor's agent (npm: @cursor/sdk 1.0.18): how a hook of hooks.json gets its event, and what an answer changes.
#
# Behaviour: the event is put behind the hook's command as a here-document (command <<'CURSOR_HOOK_EOF'), so of a line
# `python3 hook.py || exit 2` it is `exit 2` that gets the event, and the program reads nothing. A line of more than one
# command needs a shell of its own. Also: `updated_input` of preToolUse changes the path of a Write and never its
# content, so an edited text is dropped in silence; `ask` of preToolUse is not looked at, so the tool runs.
#
# Read in the shipped code, since Cursor needs an account to run; the shell's part is run.
# Output seen: "here-document: yes, of a || b: b reads it, wrapped: the program reads it" and
# "Write takes: file_path, preToolUse looks at: deny". Exits with 1 when that changes. Needs npm, sh and python3.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
npm install --prefix "$work" --ignore-scripts --no-audit --no-fund --silent @cursor/sdk@1.0.18 >/dev/null

printf '%s\n' "cat >'$work/first' || exit 2 <<'CURSOR_HOOK_EOF'" event CURSOR_HOOK_EOF >"$work/line"
sh "$work/line" </dev/null
first=$(cat "$work/first")
printf '%s\n' "sh -c 'cat || exit 2' <<'CURSOR_HOOK_EOF'" event CURSOR_HOOK_EOF >"$work/line"
wrapped=$(sh "$work/line" </dev/null)

python3 - "$work" "$first" "$wrapped" <<'PY'
import pathlib, re, sys

work, first, wrapped = sys.argv[1:]
code = "".join(file.read_text() for file in pathlib.Path(work, "node_modules/@cursor/sdk/dist/cjs").glob("*.js"))
here = "yes" if "<<'CURSOR_HOOK_EOF'" in code else "changed"
reads = "b reads it" if first == "" else "changed"
whole = "the program reads it" if wrapped == "event" else "changed"
print(f"here-document: {here}, of a || b: {reads}, wrapped: {whole}")
write = re.search(r'toolName:"Write",.{0,200}?applyUpdatedInput:\(e,t\)=>\{(.{0,200}?)\},createRejected', code)
taken = ", ".join(re.findall(r'typeof t\.(\w+)', write[1])) if write else "changed"
before = re.search(r"async function \w+\(e,t,r,o,n,s,i,a\)\{var l,c;.{0,300}?V\.preToolUse(.{0,1500}?)updated_input", code)
looked = ", ".join(sorted(set(re.findall(r'"(deny|ask)"===', before[1])))) if before else "changed"
print(f"Write takes: {taken}, preToolUse looks at: {looked}")
sys.exit((here, reads, whole, taken, looked) != ("yes", "b reads it", "the program reads it", "file_path", "deny"))
PY
