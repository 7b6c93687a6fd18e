// The layer in a process that knows nothing of assay's backend: plain Vulkan calls, direct, indirect and
// secondary dispatches, seen through assay_witness_collect() and in the log.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backends/plugin/call.hpp"
#include "backends/vulkan/api.hpp"
#include "backends/vulkan/shaders.hpp"

namespace assay_vulkan {
namespace {

class Stranger : public testing::Test {
 protected:
  void SetUp() override {
    void* library = dlopen(ASSAY_WITNESS_LAYER, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    const auto open = reinterpret_cast<const char* (*)()>(dlsym(library, "assay_witness_open"));
    collect = reinterpret_cast<const char* (*)()>(dlsym(library, "assay_witness_collect"));
    ASSERT_NE(open, nullptr);
    ASSERT_NE(collect, nullptr);
    ASSERT_EQ(open(), nullptr);
    try {
      make_device();
    } catch (const assay_plugin::Failed& failure) {
      GTEST_SKIP() << failure.what();
    }
    collect();  // forget
  }
  void TearDown() override {
    if (device == VK_NULL_HANDLE) return;
    vk.DeviceWaitIdle(device);
    for (const VkPipeline p : pipelines) vk.DestroyPipeline(device, p, nullptr);
    for (const VkShaderModule m : modules) vk.DestroyShaderModule(device, m, nullptr);
    vk.DestroyPipelineLayout(device, layout, nullptr);
    vk.DestroyCommandPool(device, pool, nullptr);
    vk.DestroyBuffer(device, buffer, nullptr);
    vk.FreeMemory(device, memory, nullptr);
    vk.DestroyDevice(device, nullptr);
    vk.DestroyInstance(instance, nullptr);
  }

  void make_device() {
    vk.load_loader();
    VkApplicationInfo application{};
    application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
    application.apiVersion = VK_API_VERSION_1_3;
    VkInstanceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
    info.pApplicationInfo = &application;
    if (vk.CreateInstance(&info, nullptr, &instance) != VK_SUCCESS)
      throw assay_plugin::Failed("no Vulkan driver");
    vk.load_instance(instance);
    std::uint32_t count = 1;
    VkPhysicalDevice physical = VK_NULL_HANDLE;
    vk.EnumeratePhysicalDevices(instance, &count, &physical);
    if (count == 0) throw assay_plugin::Failed("no Vulkan device");
    const float priority = 1;
    VkDeviceQueueCreateInfo queues{};
    queues.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queues.queueCount = 1;
    queues.pQueuePriorities = &priority;
    VkPhysicalDeviceVulkan13Features f13{};
    f13.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES;
    f13.maintenance4 = VK_TRUE;
    VkPhysicalDeviceVulkan12Features f12{};
    f12.pNext = &f13;
    f12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    f12.bufferDeviceAddress = VK_TRUE;
    f12.scalarBlockLayout = VK_TRUE;
    f12.storageBuffer8BitAccess = VK_TRUE;
    VkPhysicalDeviceVulkan11Features f11{};
    f11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
    f11.storageBuffer16BitAccess = VK_TRUE;
    f11.pNext = &f12;
    VkPhysicalDeviceFeatures2 features{};
    features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    features.features.shaderInt64 = VK_TRUE;
    features.pNext = &f11;
    VkDeviceCreateInfo device_info{};
    device_info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    device_info.pNext = &features;
    device_info.queueCreateInfoCount = 1;
    device_info.pQueueCreateInfos = &queues;
    ASSERT_EQ(vk.CreateDevice(physical, &device_info, nullptr, &device), VK_SUCCESS);
    vk.load_device(device);
    vk.GetDeviceQueue(device, 0, 0, &queue);
    const VkCommandPoolCreateInfo pool_info{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, nullptr,
                                            VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT, 0};
    ASSERT_EQ(vk.CreateCommandPool(device, &pool_info, nullptr, &pool), VK_SUCCESS);
    const VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, 8};
    const VkPipelineLayoutCreateInfo layout_info{
        VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, nullptr, 0, 0, nullptr, 1, &range};
    ASSERT_EQ(vk.CreatePipelineLayout(device, &layout_info, nullptr, &layout), VK_SUCCESS);
    // 256 bytes of zeros are a parameter block without rows; then a grid.
    const VkBufferCreateInfo buffer_info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                         nullptr,
                                         0,
                                         kBytes,
                                         VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT |
                                             VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT |
                                             VK_BUFFER_USAGE_STORAGE_BUFFER_BIT,
                                         VK_SHARING_MODE_EXCLUSIVE,
                                         0,
                                         nullptr};
    ASSERT_EQ(vk.CreateBuffer(device, &buffer_info, nullptr, &buffer), VK_SUCCESS);
    VkMemoryRequirements needs;
    vk.GetBufferMemoryRequirements(device, buffer, &needs);
    VkPhysicalDeviceMemoryProperties types;
    vk.GetPhysicalDeviceMemoryProperties(physical, &types);
    std::uint32_t type = 0;
    constexpr VkMemoryPropertyFlags kShared =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    while ((needs.memoryTypeBits >> type & 1U) == 0 ||
           (types.memoryTypes[type].propertyFlags & kShared) != kShared)
      ++type;
    VkMemoryAllocateFlagsInfo flags{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO, nullptr,
                                    VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT, 0};
    const VkMemoryAllocateInfo allocate{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, &flags, needs.size, type};
    ASSERT_EQ(vk.AllocateMemory(device, &allocate, nullptr, &memory), VK_SUCCESS);
    ASSERT_EQ(vk.BindBufferMemory(device, buffer, memory, 0), VK_SUCCESS);
    void* mapped = nullptr;
    ASSERT_EQ(vk.MapMemory(device, memory, 0, VK_WHOLE_SIZE, 0, &mapped), VK_SUCCESS);
    std::memset(mapped, 0, kBytes);
    const std::uint32_t grid[3] = {5, 3, 2};
    std::memcpy(static_cast<std::byte*>(mapped) + kGridAt, grid, sizeof grid);
  }

  // The shader "clear": over a tensor without rows it does nothing, whatever the grid.
  VkPipeline pipeline(const char* entry, std::uint32_t size) {
    const std::vector<std::uint32_t> words = finished_module(shader("clear"), entry, {});
    const VkShaderModuleCreateInfo info{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, nullptr, 0,
                                        words.size() * 4, words.data()};
    VkShaderModule module = VK_NULL_HANDLE;
    EXPECT_EQ(vk.CreateShaderModule(device, &info, nullptr, &module), VK_SUCCESS);
    modules.push_back(module);
    const VkSpecializationMapEntry entry_0{0, 0, 4};
    const VkSpecializationInfo constants{1, &entry_0, 4, &size};
    VkComputePipelineCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    create.stage = {VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                    nullptr,
                    0,
                    VK_SHADER_STAGE_COMPUTE_BIT,
                    module,
                    entry,
                    &constants};
    create.layout = layout;
    VkPipeline made = VK_NULL_HANDLE;
    EXPECT_EQ(vk.CreateComputePipelines(device, VK_NULL_HANDLE, 1, &create, nullptr, &made), VK_SUCCESS);
    pipelines.push_back(made);
    return made;
  }
  VkCommandBuffer commands() {
    const VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, nullptr, pool,
                                           VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
    VkCommandBuffer made = VK_NULL_HANDLE;
    EXPECT_EQ(vk.AllocateCommandBuffers(device, &info, &made), VK_SUCCESS);
    const VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, nullptr, 0, nullptr};
    EXPECT_EQ(vk.BeginCommandBuffer(made, &begin), VK_SUCCESS);
    return made;
  }
  void bind(VkCommandBuffer to, VkPipeline which) {
    const VkBufferDeviceAddressInfo where{VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, nullptr, buffer};
    const std::uint64_t params = vk.GetBufferDeviceAddress(device, &where);
    vk.CmdBindPipeline(to, VK_PIPELINE_BIND_POINT_COMPUTE, which);
    vk.CmdPushConstants(to, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 8, &params);
  }
  void submit(VkCommandBuffer which) {
    ASSERT_EQ(vk.EndCommandBuffer(which), VK_SUCCESS);
    VkSubmitInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    info.commandBufferCount = 1;
    info.pCommandBuffers = &which;
    ASSERT_EQ(vk.QueueSubmit(queue, 1, &info, VK_NULL_HANDLE), VK_SUCCESS);
  }

  static constexpr VkDeviceSize kBytes = 8192, kGridAt = 4096;
  Api vk;
  const char* (*collect)() = nullptr;
  VkInstance instance = VK_NULL_HANDLE;
  VkDevice device = VK_NULL_HANDLE;
  VkQueue queue = VK_NULL_HANDLE;
  VkCommandPool pool = VK_NULL_HANDLE;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  std::vector<VkPipeline> pipelines;
  std::vector<VkShaderModule> modules;
};

TEST_F(Stranger, is_seen_with_entry_point_constants_hash_and_grid_indirect_ones_included) {
  const std::string log = testing::TempDir() + "vulkan_layer_log_" + std::to_string(getpid());
  std::remove(log.c_str());
  setenv("ASSAY_WITNESS_LOG", log.c_str(), 1);
  const VkPipeline four = pipeline("first_kernel", 4);
  const VkPipeline eight = pipeline("second_kernel", 8);
  const VkCommandBuffer list = commands();
  bind(list, four);
  vk.CmdDispatch(list, 7, 1, 1);
  bind(list, eight);
  vk.CmdDispatchIndirect(list, buffer, kGridAt);
  const VkCommandBuffer unsubmitted = commands();
  bind(unsubmitted, four);
  vk.CmdDispatch(unsubmitted, 9, 9, 9);
  submit(list);
  const auto seen = nlohmann::json::parse(collect());
  EXPECT_EQ(seen["by"], "VK_LAYER_ASSAY_witness");
  ASSERT_EQ(seen["kernels"].size(), 2U) << seen;
  const std::string first = seen["kernels"][0]["name"];
  const std::string second = seen["kernels"][1]["name"];
  EXPECT_EQ(first.rfind("first_kernel<0=4> spirv:", 0), 0U) << first;
  EXPECT_EQ(second.rfind("second_kernel<0=8> spirv:", 0), 0U) << second;
  EXPECT_NE(second.find(" indirect"), std::string::npos) << second;
  EXPECT_EQ(seen["kernels"][0]["grid"], nlohmann::json({7, 1, 1}));
  EXPECT_EQ(seen["kernels"][1]["grid"], nlohmann::json({5, 3, 2}));  // as the device read it
  EXPECT_TRUE(nlohmann::json::parse(collect())["kernels"].empty());  // each submission is told once
  std::ifstream lines(log);
  std::string line;
  int count = 0;
  while (std::getline(lines, line)) count += nlohmann::json::parse(line).contains("grid") ? 1 : 0;
  EXPECT_EQ(count, 2);
  std::remove(log.c_str());
  unsetenv("ASSAY_WITNESS_LOG");
}

}  // namespace
}  // namespace assay_vulkan
