"""Load this project's templates without the line breaks and indentation of their source.

A template is laid out for its readers; a page gets one space in place of each line break with the indentation beside
it. Pages are smaller that way, and a sentence that the source breaks is one line in the page. Only literal text is
changed, never a value. Where a line break is content (in <pre>), let a value bring it.
"""

import re
from pathlib import Path

from django.conf import settings
from django.template.base import TextNode
from django.template.loaders import cached

# pattern: templates are Handrail's own
LINE_BREAK = re.compile(r"\s*\n\s*")


class Loader(cached.Loader):
    def get_template(self, template_name, skip=None):
        is_new = self.cache_key(template_name, skip) not in self.get_template_cache
        template = super().get_template(template_name, skip)
        if is_new and Path(template.origin.name).is_relative_to(settings.BASE_DIR / "templates"):
            for text in template.nodelist.get_nodes_by_type(TextNode):
                text.s = LINE_BREAK.sub(" ", text.s)
        return template
