"""One line of CSV to its fields, as in RFC 4180."""


class CsvError(ValueError):
    """The line is not CSV; the message says at which column."""


def split(line):
    fields, field, at, quoted = [], "", 0, False
    while at < len(line):
        char = line[at]
        if quoted:
            if char == '"':
                quoted = False
            else:
                field += char
        elif char == ",":
            fields.append(field)
            field = ""
        elif char == '"':
            if field:
                raise CsvError(f"column {at + 1}: a quote inside of a plain field")
            quoted = True
        else:
            field += char
        at += 1
    if quoted:
        raise CsvError(f"column {at + 1}: the line ends within quotes")
    return fields + [field]
