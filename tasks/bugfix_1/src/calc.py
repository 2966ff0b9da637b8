def total(prices, discount=0):
    return sum(prices) + discount
