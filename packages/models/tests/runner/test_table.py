import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo_models.runner.table import RowTable

ROWS = 4


@settings(deadline=None)
@given(st.data())
def test_a_table_holds_what_lists_would_hold(data: st.DataObject) -> None:
    table, lists = RowTable(ROWS, 2), [[] for _ in range(ROWS)]
    for _ in range(data.draw(st.integers(1, 20))):
        row = data.draw(st.integers(0, ROWS - 1))
        match data.draw(st.sampled_from(["extend", "append", "clear", "move"])):
            case "extend":
                items = data.draw(st.lists(st.integers(1, 99), max_size=6))
                table.extend(row, items)
                lists[row] += items
            case "append":
                rows = data.draw(st.permutations(range(ROWS)))[:row]
                table.append(np.array(rows, dtype=np.int64), np.array(rows, dtype=np.int64) + 1)
                for other in rows:
                    lists[other].append(other + 1)
            case "clear":
                table.clear(row)
                lists[row] = []
            case "move":
                target = (row + 1) % ROWS
                table.clear(target)
                table.move(row, target)
                lists[row], lists[target] = [], lists[row]
        width = table.values.shape[1]
        assert table.values.tolist() == [items + [0] * (width - len(items)) for items in lists]
        assert [table.row(index).tolist() for index in range(ROWS)] == lists
