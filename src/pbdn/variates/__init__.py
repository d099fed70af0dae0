"""Random variates, each compiled, each with its law in its first line and a test of that law.

`stream` counter-based random bits · `gamma` · `polyagamma` · `poisson` (zero-truncated, multinomial split) ·
`crt` (Chinese-restaurant tables, log-times).
"""
