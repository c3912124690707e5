"""Kernels of libraries of collectives are known by the parts of their names; names that sound alike compute."""

from __future__ import annotations

import pytest

from fastprof.derive.devices.communication_kinds import CommunicationKind as Kind
from fastprof.derive.devices.communication_kinds import find_collective_kind

COLLECTIVES = {
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)": Kind.ALL_REDUCE,
    "ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)": Kind.ALL_GATHER,
    "ncclDevKernel_ReduceScatter_Sum_f32_RING_SIMPLE(ncclDevKernelArgsStorage<4096ul>)": Kind.REDUCE_SCATTER,
    "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)": Kind.SEND_RECV,
    "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)": Kind.BROADCAST,
    "ncclDevKernel_Reduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)": Kind.REDUCE,
    "ncclDevKernel_Generic_1(ncclDevComm*, channelMasks, ncclWork*)": Kind.OTHER_COLLECTIVE,
    "ncclSymkDevKernel_AllGather_LL(ncclSymkDevWorkArgs4K)": Kind.ALL_GATHER,
    "void rcclGenericKernel<1, false>(ncclDevKernelArgsStorage<4096ul>)": Kind.OTHER_COLLECTIVE,
    "mscclKernel_Sum_half_Simple_false(ncclDevComm*, mscclAlgo*, mscclWork*)": Kind.OTHER_COLLECTIVE,
    "void mscclpp::collective::allreduceNvlsPacket<(mscclpp::ReduceOp)0, __half>(__half const*)": Kind.ALL_REDUCE,
    "oneccl_allreduce_medium_bfloat16": Kind.ALL_REDUCE,
    "oneccl_reduce_base<float, 2, 16, 1, 1, 2>": Kind.REDUCE,
    "hcom_allReduce__123_0_1": Kind.ALL_REDUCE,
    "hccl_reduce_scatter_bf16": Kind.REDUCE_SCATTER,
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals)": Kind.ALL_REDUCE,
    "void sglang::cross_device_reduce_2stage<__half, 4>(sglang::RankData*)": Kind.ALL_REDUCE,
    "_ZN5aiter26cross_device_reduce_2stageIDF16bLi8ELb0EEEvPNS_8RankDataE": Kind.ALL_REDUCE,
    "void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot<__half, 8>, __half>(__half const*)":
        Kind.ALL_REDUCE,
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(a::b)1, __half, 8>(c)":
        Kind.ALL_REDUCE,
    "void tensorrt_llm::kernels::mnnvl::twoshot_allreduce_kernel<8, __nv_bfloat16>(int)": Kind.ALL_REDUCE,
    "void tensorrt_llm::kernels::oneShotAllReduceKernel<float, 8, false>(AllReduceParams)": Kind.ALL_REDUCE,
    "void tensorrt_llm::kernels::mnnvl_throughput::moeA2ADispatchKernel<TopK<8> >(int)": Kind.ALL_TO_ALL,
    "void tensorrt_llm::kernels::moe_comm::moeAlltoAllKernel<true>(int)": Kind.ALL_TO_ALL,
    "void c10d::symmetric_memory::(anonymous namespace)::multimem_one_shot_all_reduce_kernel<float, 16>(float*)":
        Kind.ALL_REDUCE,
    "void c10d::symmetric_memory::two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 8>(int)": Kind.ALL_REDUCE,
    "void c10d::symmetric_memory::barrier_kernel(unsigned int**)": Kind.OTHER_COLLECTIVE,
    "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*, int*, long*)": Kind.ALL_TO_ALL,
    "void deep_ep::internode_ll::combine<true, 7168, 8, 9>(void*)": Kind.ALL_TO_ALL,
    "void deep_ep::intranode::cached_notify_combine<8>(void**)": Kind.ALL_TO_ALL,
    "void mori::moe::EpDispatchIntraNodeKernel<hip_bfloat16>(mori::moe::EpDispatchCombineArgs)": Kind.ALL_TO_ALL,
    "nvshmemi_barrier_all_kernel": Kind.OTHER_COLLECTIVE,
    "void userbuffers_fp16_sum_inplace_gpu_rr_ag<8>(int)": Kind.ALL_REDUCE,
    "kuserbuffers_pushsend(int)": Kind.OTHER_COLLECTIVE,
    "one_shot_all_reduce_kernel": Kind.ALL_REDUCE,
    "all_gather_kernel_0d1d2de.kd": Kind.ALL_GATHER,
}  # fmt: skip
SOUND_ALIKE = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float> > >(int)",
    "void flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<64>>(Flash_fwd_params)",
    "void at::native::_scatter_gather_elementwise_kernel<128, 8, ncclFunctor>(int)",
    "void at::native::vectorized_gather_kernel<16, long>(char*, char*)",
    "void cub::DeviceReduceKernel<cub::AllReduceTag>(float*)",
    "void moe::dispatch_tokens_kernel<8>(int)",
    "void vllm::moe::combine_experts<__half>(int)",
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<ncclData, 4>(char*)",
    "void blockAllReduceSum<float, 256>(float*)",
    "warp_all_reduce_kernel",
    "void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*)",
    "loop_gather_fusion", "input_reduce_fusion_3", "input_scatter_fusion", "wrapped_broadcast", "loop_broadcast_fusion",
    "triton_poi_fused__to_copy_all_gather_into_tensor_wait_tensor_0", "triton_red_fused_all_reduce_native_layer_norm_3",
    "acclimate_kernel", "void succlient::run(int)", "data2array_kernel", "_ZN2at6native13reduce_kernelILi512EEEvT_",
    "", "void", "<<<<", "_ZN999x", "(((", "::",
)  # fmt: skip


@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_kernel_of_a_library_of_collectives_communicates(name: str) -> None:
    assert find_collective_kind(name) is COLLECTIVES[name]


@pytest.mark.parametrize("name", SOUND_ALIKE)
def test_a_name_that_sounds_alike_computes(name: str) -> None:
    assert find_collective_kind(name) is None


def test_a_name_of_megabytes_takes_no_time() -> None:
    assert find_collective_kind("void nccl::" + "a<" * 1_000_000 + "all_reduce") is Kind.OTHER_COLLECTIVE
