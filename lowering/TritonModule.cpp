//===- TritonModule.cpp - looking at Triton's IR by name ------------------===//
//
// Part of Syncopate, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lowering/TritonModule.h"

using namespace mlir;

ModuleOp syncopate::findModule(ModuleOp module, StringRef name) {
  for (ModuleOp nested : module.getOps<ModuleOp>())
    if (nested.getSymName() == name)
      return nested;
  return {};
}

bool syncopate::isNamed(Operation *op, StringRef name) {
  return op && op->getName().getStringRef() == name;
}

// MLIR keeps the properties of an operation that it does not know as a
// dictionary.
Attribute syncopate::getTritonAttribute(Operation *op, StringRef name) {
  if (auto properties =
          dyn_cast_or_null<DictionaryAttr>(op->getPropertiesAsAttribute()))
    if (Attribute attr = properties.get(name))
      return attr;
  return op->getDiscardableAttr(name);
}

Operation *syncopate::findFunction(ModuleOp module, StringRef name) {
  for (Operation &op : module.getOps()) {
    if (op.getName().getStringRef() != "tt.func" || op.getNumRegions() != 1 ||
        op.getRegion(0).empty() || op.getRegion(0).front().empty())
      continue;
    auto symbol =
        dyn_cast_or_null<StringAttr>(getTritonAttribute(&op, "sym_name"));
    if (name.empty() || (symbol && symbol.getValue() == name))
      return &op;
  }
  return nullptr;
}

Value syncopate::findArgument(Operation *function, StringRef name) {
  for (BlockArgument argument : function->getRegion(0).getArguments())
    if (auto named = argument.getLoc()->findInstanceOf<NameLoc>())
      if (named.getName().getValue() == name)
        return argument;
  return {};
}

bool syncopate::isMarker(Operation *op, StringRef marker) {
  if (op->getName().getStringRef() != "tt.elementwise_inline_asm")
    return false;
  auto text =
      dyn_cast_or_null<StringAttr>(getTritonAttribute(op, "asm_string"));
  if (!text)
    return false;
  // A longer word is another marker.
  StringRef rest = text.getValue();
  return rest.consume_front(marker) && (rest.empty() || rest.front() == '\n');
}

SmallVector<Operation *> syncopate::findMarkers(Operation *root,
                                                StringRef marker) {
  SmallVector<Operation *> markers;
  root->walk([&](Operation *op) {
    if (isMarker(op, marker))
      markers.push_back(op);
  });
  return markers;
}
