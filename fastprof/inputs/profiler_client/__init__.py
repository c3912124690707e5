"""The profiler's own gRPC service: how do programs that run hand over captures?"""

__all__ = ["profiler_servers", "service_messages", "statuses", "workers"]
