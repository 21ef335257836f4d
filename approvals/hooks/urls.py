"""One URL for each agent's hook dialect."""

from django.urls import path

from approvals.hooks.claude_code import claude_code

urlpatterns = [
    path("claude-code", claude_code, name="hook-claude-code"),
]
