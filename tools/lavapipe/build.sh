#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prepares software WebGPU for the tests in .cache/lavapipe:
#   layer/     the Vulkan layer of layer.c
#   has_gpu    tells whether Vulkan sees real hardware
#   chromium/  the installed Chromium with one file changed: its libvk_swiftshader.so is the system's Vulkan loader, so
#              that the browser's software adapter is lavapipe (start it through chromium/lavapipe)
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
out=$here/../../.cache/lavapipe
chromium=${CHROMIUM_DIR:-/usr/lib/chromium}
loader=$(ldconfig -p | sed -n 's/.*libvulkan\.so\.1 (libc6,x86-64.*) => //p' | head -n 1)
[[ -n $loader ]] || { echo "lavapipe: no libvulkan.so.1 on this machine" >&2; exit 1; }

rm -rf "$out"
mkdir -p "$out/layer" "$out/chromium"
out=$(readlink -f "$out")

clang-19 -std=c17 -O2 -Wall -Wextra -Werror -Wno-cast-function-type -shared -fPIC -fvisibility=hidden \
  -o "$out/layer/libsinter_lavapipe.so" "$here/layer.c"
cat >"$out/layer/sinter_lavapipe.json" <<'JSON'
{
  "file_format_version": "1.2.0",
  "layer": {
    "name": "VK_LAYER_SINTER_lavapipe",
    "type": "GLOBAL",
    "library_path": "./libsinter_lavapipe.so",
    "api_version": "1.3.0",
    "implementation_version": "1",
    "description": "lets Dawn accept Mesa 22's lavapipe"
  }
}
JSON
clang-19 -std=c17 -O2 -Wall -Wextra -Werror -o "$out/has_gpu" "$here/has_gpu.c" "$loader"

# The browser finds its files beside its binary, so the binary must be real; everything else may be a link.
ln -s "$chromium"/* "$out/chromium/"
rm "$out/chromium/chromium" "$out/chromium/libvk_swiftshader.so"
ln "$chromium/chromium" "$out/chromium/chromium" 2>/dev/null || cp "$chromium/chromium" "$out/chromium/chromium"
cp -L "$loader" "$out/chromium/libvk_swiftshader.so"
cat >"$out/chromium/lavapipe" <<'SH'
#!/usr/bin/env bash
here=$(dirname "$(readlink -f "$0")")
export SINTER_LAYER_AS_SWIFTSHADER=1 SINTER_TEST_ADAPTER=lavapipe
eval "$("$here/../env.sh")"
exec "$here/chromium" "$@"
SH
chmod +x "$out/chromium/lavapipe"
ln -s "$here/env.sh" "$out/env.sh"
