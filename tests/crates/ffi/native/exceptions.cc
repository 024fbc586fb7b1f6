// Exceptions thrown, caught and rethrown around a callback that switches threads; thread_local objects with destructors.
#include <atomic>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

using hop_fn = void (*)(void *);

namespace {

// Hops while the stack is unwound, when the count of uncaught exceptions of this thread is not zero.
struct HopsInDestructor {
    hop_fn hop;
    void *context;
    int *wrong;
    ~HopsInDestructor() {
        int before = std::uncaught_exceptions();
        hop(context);
        if (std::uncaught_exceptions() != before || before == 0) ++*wrong;
    }
};

int nested(int depth, hop_fn hop, void *context, int *wrong) {
    try {
        HopsInDestructor guard{hop, context, wrong};
        if (depth == 0) throw std::runtime_error("bottom");
        int below = nested(depth - 1, hop, context, wrong);
        throw below;
    } catch (int below) {
        hop(context);
        try {
            throw; // the same one, on whichever kernel thread
        } catch (int again) {
            if (again != below) ++*wrong;
        }
        return below + 1;
    } catch (const std::runtime_error &error) {
        hop(context);
        if (std::string(error.what()) != "bottom") ++*wrong;
        if (std::current_exception() == nullptr) ++*wrong;
        return 1;
    }
}

std::atomic<int> made{0};
std::atomic<int> dropped{0};

struct Counted {
    std::string text = "fresh";
    Counted() { ++made; }
    ~Counted() { ++dropped; }
};

thread_local Counted counted;

} // namespace

extern "C" {

// depth + 1, or less than zero if an exception was lost, doubled or another context's.
int exceptions_across_switch(int depth, hop_fn hop, void *context) {
    int wrong = 0;
    int value = nested(depth, hop, context, &wrong);
    if (std::uncaught_exceptions() != 0 || std::current_exception() != nullptr) ++wrong;
    return wrong == 0 ? value : -wrong;
}

// 1 if this thread's object was fresh and kept what was put into it.
int thread_local_object(int mine, hop_fn hop, void *context) {
    if (counted.text != "fresh") return 0;
    counted.text = "a string too long to be stored inside the object: " + std::to_string(mine);
    const std::thread::id id = std::this_thread::get_id();
    hop(context);
    static std::once_flag once;
    std::call_once(once, [&] { hop(context); });
    return counted.text.back() == std::to_string(mine).back() && std::this_thread::get_id() == id;
}

void thread_local_objects(int *made_so_far, int *dropped_so_far) {
    *made_so_far = made;
    *dropped_so_far = dropped;
}

}
