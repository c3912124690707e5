"""The profiler's own gRPC service: how do programs that run hand over captures?"""

__all__ = ["addresses", "calls", "job_workers", "service_messages", "statuses", "workers"]
