/* SPDX-License-Identifier: Apache-2.0
 * Succeeds if Vulkan sees a device that is not a software renderer. */
#include <vulkan/vulkan.h>

int main(void) {
  VkInstance instance;
  if (vkCreateInstance(&(VkInstanceCreateInfo){.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO}, NULL, &instance))
    return 1;
  VkPhysicalDevice devices[16];
  uint32_t count = 16;
  int found = 0;
  if (vkEnumeratePhysicalDevices(instance, &count, devices) >= 0) {
    for (uint32_t i = 0; i < count; ++i) {
      VkPhysicalDeviceProperties properties;
      vkGetPhysicalDeviceProperties(devices[i], &properties);
      found |= properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU;
    }
  }
  vkDestroyInstance(instance, NULL);
  return found ? 0 : 1;
}
