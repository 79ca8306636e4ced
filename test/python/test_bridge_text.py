"""Aliases are expanded in place, and nothing else is touched."""

from syncopate.bridge.text import expand_aliases


def test_aliases_are_expanded_inside_opaque_types():
    text = "#smem = #ttg.shared_memory\n%0 : !ttg.memdesc<4xi32, #smem, mutable>\n"
    assert expand_aliases(text) == "%0 : !ttg.memdesc<4xi32, #ttg.shared_memory, mutable>\n"


def test_nested_and_type_aliases_are_expanded():
    text = "#a = #d.x<1>\n#b = #d.slice<{parent = #a}>\n!t = !d.t<#b>\n%0 : (!t) -> tensor<1xi32, #b>\n"
    slice_ = "#d.slice<{parent = #d.x<1>}>"
    assert expand_aliases(text) == f"%0 : (!d.t<{slice_}>) -> tensor<1xi32, {slice_}>\n"


def test_longest_name_wins():
    text = "#shared = #d.a\n#shared1 = #d.b\n%0 : !t<#shared1, #shared>\n"
    assert expand_aliases(text) == "%0 : !t<#d.b, #d.a>\n"


def test_dialect_prefix_is_no_alias():
    text = "#arith = #d.a\n%0 {x = #arith.overflow<none>, y = #arith}\n"
    assert expand_aliases(text) == "%0 {x = #arith.overflow<none>, y = #d.a}\n"


def test_strings_are_left_alone():
    text = '#a = #d.a\n%0 {asm = "// \\"#a\\" #a", x = #a}\n'
    assert expand_aliases(text) == '%0 {asm = "// \\"#a\\" #a", x = #d.a}\n'


def test_locations_stay_aliases():
    text = '#loc = loc("k.py":1:0)\n%0 : i32 loc(#loc)\n#loc1 = loc("x"(#loc))\n'
    assert expand_aliases(text) == text
