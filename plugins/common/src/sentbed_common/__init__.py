"""Functions and classes that several plugins need and core does not."""

from __future__ import annotations

# mypy: implicit-reexport
from typing import TYPE_CHECKING

from sentbed.helpers import lazy as _lazy

if TYPE_CHECKING:
    from sentbed_common.cache_directory import CACHE_VARIABLE, cache_root
    from sentbed_common.cgroup_limits import core_quota, memory_limit
    from sentbed_common.data_collections import (
        KnownArchive,
        KnownData,
        KnownFile,
        KnownMade,
        read_collections,
    )
    from sentbed_common.encoder_fingerprint import fingerprint_of, hash_code
    from sentbed_common.field_docstrings import field_docs
    from sentbed_common.finite_tensors import is_finite_tensor
    from sentbed_common.heavy_imports import import_heavy
    from sentbed_common.host_random_generators import (
        host_generator_states,
        restore_host_generators,
    )
    from sentbed_common.hub_problems import hub_errors
    from sentbed_common.in_memory_dataset import InMemoryDataset
    from sentbed_common.item_statistics import (
        ItemGroup,
        item_groups,
        item_influences,
        item_score,
        score_range,
    )
    from sentbed_common.line_readers import (
        csv_rows,
        decoded_line,
        decoded_lines,
        json_object,
        text_lines,
    )
    from sentbed_common.lock_files import is_locked
    from sentbed_common.nearest_neighbours import (
        DOCUMENT_BLOCK,
        Neighbours,
        in_blocks,
        nearest,
        unit_rows,
    )
    from sentbed_common.processor_instructions import (
        PRECISION_INSTRUCTIONS,
        present_instructions,
        processor_capabilities,
    )
    from sentbed_common.progress_bar import progress_bars
    from sentbed_common.tables import (
        BATCH_ROWS,
        HUB,
        TABLES,
        TEXT_TABLES,
        Column,
        Row,
        TableLayout,
        find_columns,
        is_data_set,
        local_file,
        require_number,
        require_string,
        require_table,
        require_text,
        suffix_of,
        table_rows,
    )
    from sentbed_common.tensor_files import read_tensors, weight_files
    from sentbed_common.text_files import open_text, readable
    from sentbed_common.text_pair_similarities import (
        Encoded,
        cosines,
        dots,
        pair_similarities,
        pairwise_similarities,
        short_text,
        tensors_of,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = _lazy(__name__)
