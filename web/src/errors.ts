// SPDX-License-Identifier: Apache-2.0

/** The ten stable error codes, in the engine's order: on the wire a code is its index plus one. */
export const ERROR_CODES = [
  'InvalidModel', 'Unsupported', 'InvalidInput', 'Io', 'OutOfMemory', 'Gpu', 'DeviceLost', 'Timeout', 'Cancelled', 'Internal',
] as const;

export type ErrorCode = (typeof ERROR_CODES)[number];

/** Every failure of this package. `chain` holds the context, innermost first; `hint` says what would work. */
export class SinterError extends Error {
  override readonly name = 'SinterError';
  readonly code: ErrorCode;
  readonly chain: string[];
  readonly hint?: string;
  readonly firstFailure?: object;
  readonly echoOf?: number;

  constructor(code: ErrorCode, message: string, hint = '', chain: string[] = [], cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.chain = chain;
    if (hint) this.hint = hint;
  }
}

/** The error's text in one line, whatever was thrown. */
export function textOf(error: unknown): string {
  return error instanceof Error ? error.message || error.name : String(error);
}

export function cancelled(signal: AbortSignal): SinterError {
  return new SinterError('Cancelled', 'cancelled by the caller', '', [], signal.reason);
}
