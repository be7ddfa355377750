from __future__ import annotations

import numpy as np
import pytest
from sentbed import RunError
from sentbed_common import in_blocks, nearest, unit_rows


def vectors(seed, rows, width=7):
    return np.random.default_rng(seed).normal(size=(rows, width)).astype(np.float32)


def naive(queries, documents, k):
    """Sort all documents for each query by their exact product, then by number."""
    neighbours = []
    for query in queries.astype(float):
        products = []
        for number, document in enumerate(documents.astype(float)):
            product = 0.0
            for x, y in zip(query, document, strict=True):
                product += x * y
            products.append((-product, number))
        best = sorted(products)[:k]
        neighbours.append([number for _, number in best])
    return neighbours


@pytest.mark.parametrize("block", [1, 3, 32, 61, 500])
def test_blocks_of_any_size_find_what_a_full_sort_finds(block):
    queries = vectors(0, 130)
    documents = vectors(1, 61)
    neighbours = nearest(queries, in_blocks(documents, block), 5)
    assert neighbours.places.tolist() == naive(queries, documents, 5)

    queries = queries.astype(float)
    documents = documents.astype(float)
    products = queries @ documents.T
    expected = np.take_along_axis(products, neighbours.places, axis=1)
    np.testing.assert_allclose(neighbours.similarities, expected, rtol=1e-12)


@pytest.mark.parametrize("block", [1, 7, 40, 41])
def test_equal_documents_stand_in_their_order_wherever_the_blocks_are_cut(block):
    """More equal documents than the spare candidates, with better and worse ones between them."""
    queries = vectors(2, 3, 96)
    documents = vectors(3, 41, 96)
    documents[5:35:2] = queries[0]
    documents[12] = 2 * queries[0]
    neighbours = nearest(queries, in_blocks(documents, block), 6)
    assert neighbours.places.tolist() == naive(queries, documents, 6)
    assert neighbours.places[0].tolist() == [12, 5, 7, 9, 11, 13]


@pytest.mark.parametrize("block", [1, 7, 13, 100])
def test_excluded_documents_are_no_neighbours_and_the_next_ones_move_up(block):
    queries = vectors(10, 9)
    documents = vectors(11, 31)
    ranked = naive(queries, documents, 31)
    # The best of every query, every second one of query 3, and all but two of query 5.
    out = []
    for row, order in enumerate(ranked):
        out.append([row, order[0]])
    for place in ranked[3][2::2]:
        out.append([3, place])
    for place in ranked[5][2:30]:
        out.append([5, place])
    shuffled = np.random.default_rng(12).permutation(np.array(out))

    expected = []
    for row, order in enumerate(ranked):
        neighbours_of_row = []
        for place in order:
            if [row, place] not in out:
                neighbours_of_row.append(place)
        neighbours_of_row += [-1] * 6
        expected.append(neighbours_of_row[:6])

    neighbours = nearest(queries, in_blocks(documents, block), 6, excluded=shuffled)
    assert neighbours.places.tolist() == expected
    assert (neighbours.places[5] == -1).sum() == 4

    stands_for_none = neighbours.places == -1
    is_infinite = np.isneginf(neighbours.similarities)
    assert (stands_for_none == is_infinite).all()


def test_a_query_that_excludes_every_document_has_no_neighbour():
    pairs = np.array([[1, 0], [1, 1]])
    queries = vectors(13, 2)
    documents = vectors(14, 2)
    neighbours = nearest(queries, [documents], 3, excluded=pairs)
    assert neighbours.places[1].tolist() == [-1, -1]
    assert sorted(neighbours.places[0].tolist()) == [0, 1]


def test_later_chunks_with_longer_vectors_are_not_cut_off_by_the_limit_of_earlier_ones():
    queries = vectors(15, 5, 64)
    documents = vectors(16, 90, 64)
    documents[60:] *= 1e4
    neighbours = nearest(queries, in_blocks(documents, 30), 7)
    assert neighbours.places.tolist() == naive(queries, documents, 7)


def test_fewer_documents_than_k_are_all_ranked():
    queries = vectors(4, 2)
    documents = vectors(5, 3)
    neighbours = nearest(queries, [documents], 10)
    assert neighbours.places.tolist() == naive(queries, documents, 10)


def test_documents_that_only_float64_tells_apart_are_in_its_order():
    query = np.array([[1.0, 1.0]], dtype=np.float32)
    # All three products round to 1 in float32.
    documents = np.array([[1, 0], [1, 2**-25], [1, 2**-26]], dtype=np.float32)
    neighbours = nearest(query, [documents], 3)
    assert neighbours.places.tolist() == [[1, 2, 0]]


def test_products_of_unit_rows_are_cosines():
    queries = 1e-12 * vectors(6, 4)
    documents = 1e12 * vectors(7, 5)
    neighbours = nearest(unit_rows(queries), [unit_rows(documents)], 5)

    queries = queries.astype(float)
    documents = documents.astype(float)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    documents /= np.linalg.norm(documents, axis=1, keepdims=True)
    cosines = queries @ documents.T
    expected = np.take_along_axis(cosines, neighbours.places, axis=1)
    np.testing.assert_allclose(neighbours.similarities, expected, atol=1e-6)


def test_sides_of_different_width_are_an_error():
    with pytest.raises(RunError, match=r"width 4, that of the second one of width 5"):
        nearest(vectors(8, 2, 4), [vectors(9, 2, 5)], 1)
