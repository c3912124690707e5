"""The profiler's own gRPC service: how do programs that run hand over captures?

Needs the extra ``capture`` (grpcio), which is imported when a call is made.
"""

__all__ = ["addresses", "calls", "job_workers", "service_messages", "statuses", "workers"]
