// RUN: not syncopate-opt %s -pass-pipeline='group(syncopate-plan-pipeline)' 2>&1 | FileCheck %s
// RUN: not syncopate-opt %s -pass-pipeline='builtin.module(chunk.plan(syncopate-pipeline{splits=2}))' 2>&1 | FileCheck %s --check-prefix=NESTED
// RUN: not syncopate-opt %s -pass-pipeline='builtin.module(syncopate-plan-pipeline{splits=many})' 2>&1 | FileCheck %s --check-prefix=OPTION

// Pipelines of modules, where there is none, and wrong options.

// CHECK: expects 'syncopate-plan-pipeline' to run on 'builtin.module', but got 'group'
// NESTED: expects 'syncopate-pipeline' to run on 'builtin.module', but got 'chunk.plan'
// OPTION: 'many' value invalid
chunk.plan @p mesh [2] {}
