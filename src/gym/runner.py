def prepare(text): pass
