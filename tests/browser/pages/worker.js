// SPDX-License-Identifier: Apache-2.0
import * as cases from './cases.js';

onmessage = async ({ data: [name, args] }) => postMessage(await cases.guarded(() => cases[name](...args)));
