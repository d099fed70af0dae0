"""Sums over rows: A_k = Σ_i ω_ik x_i x_i' and h_k = Σ_i linear_ik x_i, for all experts at once.

Experts lie together: A is kept as (pairs v ≤ w) × K, h as D × K.
"""

from typing import NamedTuple

import numpy as np

from pbdn.gibbs.kernel_arguments import RowTerms
from pbdn.gibbs.matrices import as_matrix, multiply
from pbdn.gibbs.rows import BLOCK_ROWS
from pbdn.numerics.arrays import FloatArray
from pbdn.numerics.compiled import internal

MOST_PAIRS = 2500  # (70 inputs) up to which products of inputs are made a few rows at a time
SCRATCH_NUMBERS = 50_000  # of doubles (400 kB) that those may take


class GramScratch(NamedTuple):
    """Memory of `add_block`: what is made of a few rows, and the result of one matrix product."""

    made: FloatArray
    result: FloatArray


@internal
def chunk_rows(n_pairs):
    """Rows whose products are made at a time."""
    return min(BLOCK_ROWS, max(16, SCRATCH_NUMBERS // n_pairs))


@internal
def gram_scratch(n_inputs, n_experts):
    """Scratch for rows of ``n_inputs`` inputs."""
    n_pairs = n_inputs * (n_inputs + 1) // 2
    if n_pairs <= MOST_PAIRS:
        return GramScratch(np.empty((n_pairs + n_inputs) * chunk_rows(n_pairs)), np.empty(n_pairs * n_experts))
    return GramScratch(np.empty(2 * BLOCK_ROWS * n_inputs), np.empty(n_inputs * max(n_inputs, n_experts)))


@internal
def turn_rows(dense, low, n, out):
    """out (D × n) = rows low ≤ i < low + n, transposed."""
    for i in range(n):
        for v in range(dense.shape[1]):
            out[v, i] = dense[low + i, v]


@internal
def make_products(inputs, out):
    """out (pairs × n) = x_v x_w for pairs v ≤ w of ``inputs`` (D × n)."""
    at = 0
    for v in range(inputs.shape[0]):
        for w in range(v, inputs.shape[0]):
            pair, one, two = out[at], inputs[v], inputs[w]
            for i in range(pair.shape[0]):
                pair[i] = one[i] * two[i]
            at += 1


@internal
def add_product(left, right, scratch, total):
    """total += left @ right."""
    product = as_matrix(scratch, left.shape[0], right.shape[1])
    multiply(left, right, product)
    for v in range(product.shape[0]):
        for k in range(product.shape[1]):
            total[v, k] += product[v, k]


@internal
def add_sparse(sparse, low, n, terms: RowTerms, gram, moment):
    """`add_block` of sparse rows: only the non-zeros count."""
    pg_weights, linear = terms
    n_inputs, n_experts = moment.shape
    pointers, columns, values = sparse
    for i in range(low, low + n):
        omega, slope = pg_weights[i - low], linear[i - low]
        for a in range(pointers[i], pointers[i + 1]):
            v, x = columns[a], values[a]
            row_start = v * n_inputs - v * (v - 1) // 2 - v
            total = moment[v]
            for k in range(n_experts):
                total[k] += x * slope[k]
            for b in range(a, pointers[i + 1]):
                product = x * values[b]
                total = gram[row_start + columns[b]]
                for k in range(n_experts):
                    total[k] += product * omega[k]


@internal
def add_block(dense, sparse, low, n, terms: RowTerms, scratch: GramScratch, gram, moment):
    """Add rows low ≤ i < low + n, whose terms begin at 0, to gram and moment; ``sparse`` is None where the inputs are dense.

    With products x_v x_w, made for a few rows at a time, this is one matrix product for all experts; with many inputs, where
    those products would not fit a cache, one per expert, X'(ω_k X).
    """
    if sparse is not None:
        add_sparse(sparse, low, n, terms, gram, moment)
        return
    pg_weights, linear = terms
    made, result = scratch
    n_inputs, n_experts = moment.shape
    n_pairs = gram.shape[0]
    step = chunk_rows(n_pairs) if n_pairs <= MOST_PAIRS else BLOCK_ROWS
    for start in range(0, n, step):
        size = min(step, n - start)
        inputs = as_matrix(made, n_inputs, size)
        rest = made[n_inputs * size :]
        turn_rows(dense, low + start, size, inputs)
        add_product(inputs, linear[start : start + size], result, moment)
        if n_pairs <= MOST_PAIRS:
            products = as_matrix(rest, n_pairs, size)
            make_products(inputs, products)
            add_product(products, pg_weights[start : start + size], result, gram)
            continue
        scaled, square = as_matrix(rest, size, n_inputs), as_matrix(result, n_inputs, n_inputs)
        for k in range(n_experts):
            for i in range(size):
                for v in range(n_inputs):
                    scaled[i, v] = pg_weights[i, k] * dense[low + i, v]
            multiply(inputs, scaled, square)
            at = 0
            for v in range(n_inputs):
                for w in range(v, n_inputs):
                    gram[at, k] += square[v, w]
                    at += 1
