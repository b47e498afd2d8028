// SPDX-License-Identifier: Apache-2.0
import { defineConfig } from 'vite';

export default defineConfig({
  base: './',
  // The page's Content-Security-Policy allows files of its own only: nothing is inlined as data: or blob:.
  build: {
    target: 'es2022', assetsInlineLimit: 0, modulePreload: { polyfill: false }, rollupOptions: { input: ['index.html', 'doctor.html'] },
  },
});
