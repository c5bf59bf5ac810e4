"""What all tests share: hypothesis may take its time, since the machine is seldom ours alone."""

from hypothesis import settings

settings.register_profile("pgrelay", deadline=None)
settings.load_profile("pgrelay")
