// SPDX-License-Identifier: Apache-2.0
import type { DoctorOptions, DoctorReport } from './examine.js';

/**
 * Examines this browser or runtime and, where one is given, a model: what is here, whether each operator computes right on
 * each backend, the model's stages one by one, and a verdict in one sentence. Loads sinter/diag for it.
 */
export async function doctor(options?: DoctorOptions): Promise<DoctorReport> {
  const { examine } = await import('./diag.js');
  return examine(options);
}
