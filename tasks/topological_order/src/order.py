"""The order in which the steps of a build are done. A step has a number, and the numbers of those it needs."""


class Cycle(ValueError):
    """Steps that need each other."""


def build_order(needs):
    """needs: {step: [steps that it needs, …]}. Steps that could be done at the same time are done by their number."""
    waiting = {step: set(before) for step, before in needs.items()}
    for before in needs.values():
        for step in before:
            waiting.setdefault(step, set())
    ready = {step for step, before in waiting.items() if not before}
    order = []
    while ready:
        step = ready.pop()
        order.append(step)
        for other, before in waiting.items():
            if step in before:
                before.remove(step)
                if not before:
                    ready.add(other)
    if len(order) < len(waiting):
        raise Cycle(sorted(step for step, before in waiting.items() if before))
    return order
