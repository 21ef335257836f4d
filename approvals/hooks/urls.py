"""One address for each agent's dialect."""

from django.urls import path

from approvals.hooks.view import hook

urlpatterns = [
    path("<str:agent>", hook, name="hook"),
]
