// SPDX-License-Identifier: Apache-2.0
export { createEngine, type Engine, type EngineOptions, type EngineState, type LoadOptions } from './engine.js';
export { SinterError, type ErrorCode, type FirstFailure, type TraceEvent } from './errors.js';
export { doctor } from './doctor.js';
export type { DoctorOptions, DoctorReport } from './examine.js';
export { Tensor, type DType, type TensorData, type TensorSource } from './tensor.js';
export type { Session, IoInfo, Report, RunOptions, Tensors } from './session.js';
export type { ModelSource, Progress } from './source.js';
export type { ImageOptions, ImageSource, Preprocess } from './image.js';
