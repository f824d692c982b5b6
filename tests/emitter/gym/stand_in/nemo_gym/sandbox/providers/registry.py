CLASSES = {}


def get_provider_class(name):
    return CLASSES[name]


def create_provider(name):
    return get_provider_class(name)()
