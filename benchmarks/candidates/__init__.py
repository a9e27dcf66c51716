"""HTTP servers and clients compared by http_candidates.py, as bare as they come, one file each."""

CANDIDATES = {
    "http-transport-uvloop": "candidates.http_transport:HttpTransportUvloop",
    "http-transport-asyncio": "candidates.http_transport:HttpTransportAsyncio",
    "uvicorn": "candidates.uvicorn_bare:UvicornBare",
    "aiohttp": "candidates.aiohttp_both:AiohttpBoth",
}
"""Name on the command line and in results, and the class; imported only where it is measured."""

__all__ = ["CANDIDATES"]
