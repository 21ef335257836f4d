"""Workspaces: the list, one of them with its tabs, and what moves it."""

from django.urls import path

from workspaces import command_pages, environment_pages, file_pages, leaving_pages, terminal_pages, views

AT = "w/<slug:team>/<str:key>/"

urlpatterns = [
    path("environments/", environment_pages.index, name="environments"),
    path("environments/new/", environment_pages.new, name="environment-new"),
    path("environments/<uuid:pk>/", environment_pages.environment, name="environment"),
    path("environments/<uuid:pk>/edit/", environment_pages.edit, name="environment-edit"),
    path("workspaces/", views.workspaces, name="workspaces"),
    path("workspaces/new/", views.new, name="workspace-new"),
    path("workspaces/trash/", views.in_trash, name="workspaces-trash"),
    path("workspaces/trash/<uuid:pk>/back/", views.untrash, name="workspace-untrash"),
    path(AT, views.timeline, name="workspace"),
    path(f"{AT}pause/", views.pause, name="workspace-pause"),
    path(f"{AT}resume/", views.resume, name="workspace-resume"),
    path(f"{AT}stop/", views.stop, name="workspace-stop"),
    path(f"{AT}retry/", views.retry, name="workspace-retry"),
    path(f"{AT}reset/", views.reset, name="workspace-reset"),
    path(f"{AT}delete/", views.delete, name="workspace-delete"),
    path(f"{AT}moves/<uuid:pk>/", views.move, name="workspace-move"),
    path(f"{AT}changes/", file_pages.changes, name="workspace-changes"),
    path(f"{AT}changes/patch/", file_pages.patch, name="workspace-patch"),
    path(f"{AT}changes/back/", leaving_pages.take_back_file, name="change-back"),
    path(f"{AT}changes/back/part/", leaving_pages.take_back_hunk, name="hunk-back"),
    path(f"{AT}bundle/", leaving_pages.bundle, name="workspace-bundle"),
    path(f"{AT}push/", leaving_pages.push, name="workspace-push"),
    path(f"{AT}files/", file_pages.files, name="workspace-files"),
    path(f"{AT}files/raw/", file_pages.raw, name="workspace-file-raw"),
    path(f"{AT}checks/", command_pages.checks, name="workspace-checks"),
    path(f"{AT}checks/run/", command_pages.run, name="command-run"),
    path(f"{AT}checks/adopt/", environment_pages.adopt, name="environment-adopt"),
    path(f"{AT}commands/<uuid:pk>/", command_pages.command, name="command"),
    path(f"{AT}commands/<uuid:pk>/output/", command_pages.output, name="command-output"),
    path(f"{AT}commands/<uuid:pk>/cancel/", command_pages.cancel, name="command-cancel"),
    path(f"{AT}terminals/", terminal_pages.index, name="workspace-terminals"),
    path(f"{AT}terminals/open/", terminal_pages.open_one, name="terminal-open"),
    path(f"{AT}terminals/<uuid:pk>/", terminal_pages.terminal, name="terminal"),
    path(f"{AT}terminals/<uuid:pk>/recording/", terminal_pages.recording, name="terminal-recording"),
    path(f"{AT}terminals/<uuid:pk>/cast/", terminal_pages.cast, name="terminal-cast"),
    path(f"{AT}terminals/<uuid:pk>/log/", terminal_pages.log, name="terminal-log"),
    path(f"{AT}snapshots/", views.snapshots, name="workspace-snapshots"),
    path(f"{AT}snapshots/take/", views.take_snapshot, name="snapshot-take"),
    path(f"{AT}snapshots/<int:number>/", views.snapshot, name="snapshot"),
    path(f"{AT}snapshots/<int:number>/fork/", leaving_pages.fork, name="snapshot-fork"),
    path(f"{AT}snapshots/<int:number>/restore/", views.restore, name="snapshot-restore"),
]
