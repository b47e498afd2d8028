// SPDX-License-Identifier: Apache-2.0
// The import comes second: while a module waits for its imports, messages to it may be lost.
onmessage = async ({ data: [name, args] }) => {
  const cases = await import('./cases.js');
  postMessage(await cases.guarded(() => cases[name](...args)));
};
