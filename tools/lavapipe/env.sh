#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the environment in which tests and demo find a WebGPU adapter, for eval.
#   SINTER_TEST_ADAPTER  lavapipe, swiftshader or system (the machine's own drivers, nothing is set for them);
#                        by default system where there is a GPU, else lavapipe
#   SINTER_CHROMIUM      the browser to start
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
cache=$(readlink -f "$here/../../.cache/lavapipe")
adapter=${SINTER_TEST_ADAPTER:-}
if [[ -z $adapter ]]; then
  if "$cache/has_gpu" 2>/dev/null; then adapter=system; else adapter=lavapipe; fi
fi

set_driver() {
  # Older loaders know the first name only, newer ones prefer the second.
  printf 'export VK_ICD_FILENAMES=%q VK_DRIVER_FILES=%q\n' "$1" "$1"
}

echo "export SINTER_TEST_ADAPTER=$adapter"
if [[ $adapter != lavapipe && "${VK_INSTANCE_LAYERS:-}" == VK_LAYER_SINTER_lavapipe ]]; then
  echo "unset VK_INSTANCE_LAYERS VK_LAYER_PATH VK_ICD_FILENAMES VK_DRIVER_FILES"
fi
case "$adapter" in
  lavapipe)
    set_driver /usr/share/vulkan/icd.d/lvp_icd.x86_64.json
    printf 'export VK_LAYER_PATH=%q VK_INSTANCE_LAYERS=VK_LAYER_SINTER_lavapipe\n' "$cache/layer"
    printf 'export SINTER_CHROMIUM=%q\n' "$cache/chromium/lavapipe"
    ;;
  swiftshader)
    set_driver /usr/lib/chromium/vk_swiftshader_icd.json
    echo "export SINTER_CHROMIUM=/usr/bin/chromium"
    ;;
  system) echo "export SINTER_CHROMIUM=/usr/bin/chromium" ;;
  *) echo "lavapipe/env.sh: SINTER_TEST_ADAPTER is '$adapter', must be lavapipe, swiftshader or system" >&2; exit 2 ;;
esac
