#!/bin/sh
# Run a command that prints nothing, with a dot each second, so that a person sees that it works.
"$@" &
work=$!
trap 'kill $work 2>/dev/null; exit 130' INT TERM
while kill -0 $work 2>/dev/null; do
    sleep 1
    printf .
done
echo
wait $work
