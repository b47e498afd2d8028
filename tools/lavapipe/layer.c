/* SPDX-License-Identifier: Apache-2.0
 *
 * A Vulkan layer for tests: makes Dawn accept Debian 12's lavapipe (Mesa 22.3).
 *
 * Dawn demands two features that lavapipe of that age does not report, dynamic indexing of sampled and of storage image
 * arrays. Compute shaders on buffers use neither. For software devices the layer reports both and takes them out again
 * when a device is created with them; hardware devices pass through untouched.
 *
 * SINTER_LAYER_AS_SWIFTSHADER=1 also reports SwiftShader's vendor and device ids, for every device: headless Chromium
 * accepts no other adapter without a display.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

enum { SWIFTSHADER_VENDOR = 0x1AE0, SWIFTSHADER_DEVICE = 0xC0DE, MAX_INSTANCES = 64 };

/* What lies below this layer, per instance. Found by the loader's dispatch pointer, which an instance shares with its
 * physical devices. Entries live as long as the process: the loader may reuse an address, which then overwrites one. */
typedef struct {
  void* key;
  VkInstance instance;
  PFN_vkGetInstanceProcAddr get_proc;
  PFN_vkGetPhysicalDeviceFeatures features;
  PFN_vkGetPhysicalDeviceFeatures2 features2;
  PFN_vkGetPhysicalDeviceProperties properties;
  PFN_vkGetPhysicalDeviceProperties2 properties2;
} Below;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Below instances[MAX_INSTANCES];
static PFN_vkGetDeviceProcAddr next_device_proc;

static void* dispatch_key(void* handle) { return *(void**)handle; }

static Below* find(void* handle) {
  void* key = dispatch_key(handle);
  Below* found = NULL;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < MAX_INSTANCES && !found; ++i) {
    if (instances[i].key == key) found = &instances[i];
  }
  pthread_mutex_unlock(&lock);
  return found;
}

static VkResult remember(Below below) {
  VkResult result = VK_ERROR_OUT_OF_HOST_MEMORY;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < MAX_INSTANCES; ++i) {
    if (instances[i].key && instances[i].key != below.key) continue;
    instances[i] = below;
    result = VK_SUCCESS;
    break;
  }
  pthread_mutex_unlock(&lock);
  return result;
}

static int is_software(VkPhysicalDevice device) {
  VkPhysicalDeviceProperties properties;
  find(device)->properties(device, &properties);
  return properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
}

static void set_image_indexing(VkPhysicalDeviceFeatures* features, VkBool32 value) {
  features->shaderSampledImageArrayDynamicIndexing = value;
  features->shaderStorageImageArrayDynamicIndexing = value;
}

static void disguise(VkPhysicalDeviceProperties* properties) {
  const char* wanted = getenv("SINTER_LAYER_AS_SWIFTSHADER");
  if (!wanted || strcmp(wanted, "1") != 0) return;
  properties->vendorID = SWIFTSHADER_VENDOR;
  properties->deviceID = SWIFTSHADER_DEVICE;
}

static VKAPI_ATTR void VKAPI_CALL get_features(VkPhysicalDevice device, VkPhysicalDeviceFeatures* out) {
  find(device)->features(device, out);
  if (is_software(device)) set_image_indexing(out, VK_TRUE);
}

static VKAPI_ATTR void VKAPI_CALL get_features2(VkPhysicalDevice device, VkPhysicalDeviceFeatures2* out) {
  find(device)->features2(device, out);
  if (is_software(device)) set_image_indexing(&out->features, VK_TRUE);
}

static VKAPI_ATTR void VKAPI_CALL get_properties(VkPhysicalDevice device, VkPhysicalDeviceProperties* out) {
  find(device)->properties(device, out);
  disguise(out);
}

static VKAPI_ATTR void VKAPI_CALL get_properties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2* out) {
  find(device)->properties2(device, out);
  disguise(&out->properties);
}

/* The loader's link for this layer in a create call's pNext chain; both kinds of link start with the same three fields. */
static void* find_link(const void* chain, VkStructureType type) {
  for (VkLayerInstanceCreateInfo* info = (VkLayerInstanceCreateInfo*)chain; info;
       info = (VkLayerInstanceCreateInfo*)info->pNext) {
    if (info->sType == type && info->function == VK_LAYER_LINK_INFO) return info;
  }
  return NULL;
}

static PFN_vkVoidFunction either(PFN_vkGetInstanceProcAddr get, VkInstance instance, const char* core,
                                 const char* khr) {
  PFN_vkVoidFunction function = get(instance, core);
  return function ? function : get(instance, khr);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo* info,
                                                      const VkAllocationCallbacks* allocator, VkInstance* out) {
  VkLayerInstanceCreateInfo* link = find_link(info->pNext, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
  if (!link) return VK_ERROR_INITIALIZATION_FAILED;
  PFN_vkGetInstanceProcAddr get = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  VkResult result = ((PFN_vkCreateInstance)get(NULL, "vkCreateInstance"))(info, allocator, out);
  if (result != VK_SUCCESS) return result;
  /* These must be looked up now: after this call the loader would answer with the head of the chain, this layer. */
  return remember((Below){
      .key = dispatch_key(*out),
      .instance = *out,
      .get_proc = get,
      .features = (PFN_vkGetPhysicalDeviceFeatures)get(*out, "vkGetPhysicalDeviceFeatures"),
      .features2 = (PFN_vkGetPhysicalDeviceFeatures2)either(get, *out, "vkGetPhysicalDeviceFeatures2",
                                                            "vkGetPhysicalDeviceFeatures2KHR"),
      .properties = (PFN_vkGetPhysicalDeviceProperties)get(*out, "vkGetPhysicalDeviceProperties"),
      .properties2 = (PFN_vkGetPhysicalDeviceProperties2)either(get, *out, "vkGetPhysicalDeviceProperties2",
                                                                "vkGetPhysicalDeviceProperties2KHR"),
  });
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice device, const VkDeviceCreateInfo* info,
                                                    const VkAllocationCallbacks* allocator, VkDevice* out) {
  VkLayerDeviceCreateInfo* link = find_link(info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
  if (!link) return VK_ERROR_INITIALIZATION_FAILED;
  PFN_vkGetInstanceProcAddr get = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  next_device_proc = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;

  VkDeviceCreateInfo changed = *info;
  VkPhysicalDeviceFeatures features;
  if (is_software(device)) {
    if (info->pEnabledFeatures) {
      features = *info->pEnabledFeatures;
      set_image_indexing(&features, VK_FALSE);
      changed.pEnabledFeatures = &features;
    }
    for (VkBaseOutStructure* next = (VkBaseOutStructure*)info->pNext; next; next = next->pNext) {
      if (next->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2) continue;
      set_image_indexing(&((VkPhysicalDeviceFeatures2*)next)->features, VK_FALSE);
    }
  }
  return ((PFN_vkCreateDevice)get(find(device)->instance, "vkCreateDevice"))(device, &changed, allocator, out);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_proc(VkDevice device, const char* name) {
  if (strcmp(name, "vkGetDeviceProcAddr") == 0) return (PFN_vkVoidFunction)get_device_proc;
  return next_device_proc ? next_device_proc(device, name) : NULL;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance_proc(VkInstance instance, const char* name) {
  static const struct {
    const char* name;
    PFN_vkVoidFunction function;
  } ours[] = {
      {"vkGetInstanceProcAddr", (PFN_vkVoidFunction)get_instance_proc},
      {"vkGetDeviceProcAddr", (PFN_vkVoidFunction)get_device_proc},
      {"vkCreateInstance", (PFN_vkVoidFunction)create_instance},
      {"vkCreateDevice", (PFN_vkVoidFunction)create_device},
      {"vkGetPhysicalDeviceFeatures", (PFN_vkVoidFunction)get_features},
      {"vkGetPhysicalDeviceFeatures2", (PFN_vkVoidFunction)get_features2},
      {"vkGetPhysicalDeviceFeatures2KHR", (PFN_vkVoidFunction)get_features2},
      {"vkGetPhysicalDeviceProperties", (PFN_vkVoidFunction)get_properties},
      {"vkGetPhysicalDeviceProperties2", (PFN_vkVoidFunction)get_properties2},
      {"vkGetPhysicalDeviceProperties2KHR", (PFN_vkVoidFunction)get_properties2},
  };
  for (size_t i = 0; i < sizeof ours / sizeof *ours; ++i) {
    if (strcmp(name, ours[i].name) == 0) return ours[i].function;
  }
  Below* below = instance ? find(instance) : NULL;
  return below ? below->get_proc(instance, name) : NULL;
}

__attribute__((visibility("default"))) VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface* interface) {
  if (interface->loaderLayerInterfaceVersion > 2) interface->loaderLayerInterfaceVersion = 2;
  interface->pfnGetInstanceProcAddr = get_instance_proc;
  interface->pfnGetDeviceProcAddr = get_device_proc;
  interface->pfnGetPhysicalDeviceProcAddr = NULL;
  return VK_SUCCESS;
}
