from __future__ import annotations

from hypothesis import settings

settings.register_profile("agent", deadline=None)  # machines differ; time is not what is tested
settings.load_profile("agent")
