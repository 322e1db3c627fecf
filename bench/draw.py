def picture(document):
    return ""
