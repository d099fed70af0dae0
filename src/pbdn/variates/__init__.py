"""Random variates, each compiled, each with its law in its first line and a test of that law.

`random_stream` counter-based random bits, and uniform, normal, exponential and gamma variates made of them · `polya_gamma` ·
`counts` (zero-truncated Poisson, multinomial split, Chinese-restaurant tables).
"""
