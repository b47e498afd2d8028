// SPDX-License-Identifier: Apache-2.0

/** The ten stable error codes, in the engine's order: on the wire a code is its index plus one. */
export const ERROR_CODES = [
  'InvalidModel', 'Unsupported', 'InvalidInput', 'Io', 'OutOfMemory', 'Gpu', 'DeviceLost', 'Timeout', 'Cancelled', 'Internal',
] as const;

export type ErrorCode = (typeof ERROR_CODES)[number];

/** What looks like an event to `onEvent` and in a failure's record. */
export interface TraceEvent {
  id: number;
  t_ms: number;
  stage: string;
  phase: 'begin' | 'end' | 'point';
  node?: string;
  detail?: string;
}

/** What is known of the failure behind an error; what is not known, or does not apply, is absent. */
export interface FirstFailure {
  /** Its number in this engine; the errors that are its consequence have it as `echoOf`. */
  id: number;
  code: ErrorCode;
  message?: string;
  hint?: string;
  chain?: string[];
  stage?: string;
  node?: string;
  op?: string;
  attributes?: string;
  /** The ONNX nodes of the step, where several were fused. */
  nodes?: string[];
  /** Name, element type and shape: 'x float32[1,3,224,224]'. */
  inputs?: string[];
  outputs?: string[];
  kernel?: string;
  /** The kernel's text; '> ' marks the line to blame. */
  wgsl?: string;
  /** The call of the device that failed. */
  call?: string;
  /** Where the caller asked for what failed, and where the module was. */
  stack: { js?: string; wasm?: string };
  /** The last events before it, oldest first. */
  events: TraceEvent[];
}

/** Every failure of this package. `chain` holds the context, innermost first; `hint` says what would work. */
export class SinterError extends Error {
  override readonly name = 'SinterError';
  readonly code: ErrorCode;
  readonly chain: string[];
  readonly hint?: string;
  /** The failure that started it, where this one belongs to an engine. */
  readonly firstFailure?: FirstFailure;
  /** The number of the first failure, where this one is only its consequence. */
  readonly echoOf?: number;

  constructor(code: ErrorCode, message: string, hint = '', chain: string[] = [], cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.chain = chain;
    if (hint) this.hint = hint;
  }

  /** @internal The same error with more context. */
  in(context: string): SinterError {
    return this.again(context).of(this.firstFailure, this.echoOf);
  }

  /** @internal A copy for another caller, who is told of the failure in its own way. */
  again(...context: string[]): SinterError {
    return new SinterError(this.code, this.message, this.hint, [...this.chain, ...context], this.cause);
  }

  /** @internal */
  of(firstFailure: FirstFailure | undefined, echoOf?: number): this {
    return Object.assign(this, firstFailure && { firstFailure }, echoOf !== undefined && { echoOf });
  }
}

/** The error's text in one line, whatever was thrown. */
export function textOf(error: unknown): string {
  return error instanceof Error ? error.message || error.name : String(error);
}

export function cancelled(signal: AbortSignal): SinterError {
  return new SinterError('Cancelled', 'cancelled by the caller', '', [], signal.reason);
}

/** `promise`, or a Timeout that says what did not come; 0: no limit. */
export function within<T>(promise: Promise<T>, milliseconds: number, what: string): Promise<T> {
  if (!milliseconds) return promise;
  let timer: ReturnType<typeof setTimeout>;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new SinterError('Timeout', `${what} for ${milliseconds} ms`, 'raise timeoutMs if the line is only slow')),
      Math.min(milliseconds, 2 ** 31 - 1));
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Calls a function of the caller's; what it throws is reported as uncaught and changes nothing here. */
export function tell<T>(listener: ((value: T) => void) | undefined, value: T): void {
  try {
    listener?.(value);
  } catch (error) {
    queueMicrotask(() => { throw error; });
  }
}
