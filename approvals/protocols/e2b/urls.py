"""Addresses of E2B's two APIs, which its SDKs know by the names of `host_names.py`, or below /e2b and /e2b/envd."""

from django.urls import path, re_path

from approvals.protocols.e2b import files, filesystem, processes, sandboxes
from approvals.protocols.e2b.answering import not_taken

PROCESS, FILESYSTEM = "envd/process.Process/", "envd/filesystem.Filesystem/"

urlpatterns = [
    path("v2/sandboxes", sandboxes.collection, name="e2b-sandboxes"),
    path("sandboxes/<str:key>", sandboxes.one, name="e2b-sandbox"),
    path("sandboxes/<str:key>/pause", sandboxes.pause, name="e2b-pause"),
    path("sandboxes/<str:key>/timeout", sandboxes.timeout, name="e2b-timeout"),
    path("v2/sandboxes/<str:key>/connect", sandboxes.connect, name="e2b-connect"),
    path("envd/health", files.health, name="e2b-health"),
    path("envd/files", files.contents, name="e2b-files"),
    path(f"{PROCESS}Start", processes.start, name="e2b-start"),
    path(f"{PROCESS}Connect", processes.connect, name="e2b-follow"),
    path(f"{PROCESS}List", processes.list_processes, name="e2b-processes"),
    path(f"{PROCESS}SendInput", processes.send_input, name="e2b-send-input"),
    path(f"{PROCESS}StreamInput", processes.stream_input, name="e2b-stream-input"),
    path(f"{PROCESS}CloseStdin", processes.close_stdin, name="e2b-close-stdin"),
    path(f"{PROCESS}Update", processes.update, name="e2b-update"),
    path(f"{PROCESS}SendSignal", processes.send_signal, name="e2b-send-signal"),
    path(f"{FILESYSTEM}Stat", filesystem.stat, name="e2b-stat"),
    path(f"{FILESYSTEM}ListDir", filesystem.list_dir, name="e2b-list-dir"),
    path(f"{FILESYSTEM}MakeDir", filesystem.make_dir, name="e2b-make-dir"),
    path(f"{FILESYSTEM}Move", filesystem.move, name="e2b-move"),
    path(f"{FILESYSTEM}Remove", filesystem.remove, name="e2b-remove"),
    path(f"{FILESYSTEM}WatchDir", filesystem.watch_dir, name="e2b-watch-dir"),
    path(f"{FILESYSTEM}CreateWatcher", filesystem.create_watcher, name="e2b-create-watcher"),
    path(f"{FILESYSTEM}GetWatcherEvents", filesystem.get_watcher_events, name="e2b-watcher-events"),
    path(f"{FILESYSTEM}RemoveWatcher", filesystem.remove_watcher, name="e2b-remove-watcher"),
    re_path("", not_taken),
]
